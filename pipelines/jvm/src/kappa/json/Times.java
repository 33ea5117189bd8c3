package kappa.json;

import java.time.ZoneId;
import java.time.ZoneOffset;
import org.apache.spark.sql.catalyst.util.SparkDateTimeUtils$;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/** Dates and timestamps as ISO 8601 writes them, in years 1 to 9999. */
final class Times {
    static final long NONE = Long.MIN_VALUE;
    static final long MICROS = 1_000_000L;
    static final long SECONDS_PER_DAY = 86_400L;
    private static final int[] DAYS = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    private static final long FIRST_DAY = days(1, 1, 1);
    private static final long LAST_DAY = days(9999, 12, 31);
    private static final int DATE = 10;
    private static final int TIME = 19;

    private Times() {}

    /** Return the days since 1970 of a date `2013-01-31` at a place; NONE if it is another text. */
    static long parseDate(byte[] text, int at) {
        int year = 100 * two(text, at) + two(text, at + 2);
        int month = two(text, at + 5);
        int day = two(text, at + 8);
        boolean isDate = text[at + 4] == '-' && text[at + 7] == '-' && year > 0 && month > 0 && month <= 12 && day > 0;
        if (!isDate || two(text, at) < 0 || two(text, at + 2) < 0 || day > lastDay(year, month)) {
            return NONE;
        }
        return days(year, month, day);
    }

    private static int lastDay(int year, int month) {
        boolean isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        return month == 2 && isLeap ? 29 : DAYS[month - 1];
    }

    /** Source: Howard Hinnant, chrono-Compatible Low-Level Date Algorithms, `days_from_civil`. */
    private static long days(int year, int month, int day) {
        int shifted = month <= 2 ? year - 1 : year;
        int era = shifted / 400;
        int ofEra = shifted - era * 400;
        int ofYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
        return era * 146_097L + ofEra * 365L + ofEra / 4 - ofEra / 100 + ofYear - 719_468;
    }

    /** Return whether a day is in a year that is written with four digits. */
    static boolean isPlain(long days) {
        return days >= FIRST_DAY && days <= LAST_DAY;
    }

    /** Return the places of seconds that a pattern writes, if in UTC it is one that `Output.time` writes too; 0 for other patterns. */
    static int places(String pattern) {
        if (pattern.equals("yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX")) {
            return 6;
        }
        return pattern.equals("yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]") ? 3 : 0;
    }

    /** Source: as above, `civil_from_days`. */
    static void write(long days, Output output) {
        long shifted = days + 719_468;
        long era = Math.floorDiv(shifted, 146_097L);
        int ofEra = (int) (shifted - era * 146_097);
        int year = (ofEra - ofEra / 1460 + ofEra / 36_524 - ofEra / 146_096) / 365;
        int ofYear = ofEra - (365 * year + year / 4 - year / 100);
        int month = (5 * ofYear + 2) / 153;
        int day = ofYear - (153 * month + 2) / 5 + 1;
        int found = month < 10 ? month + 3 : month - 9;
        output.date((int) (year + era * 400) + (found <= 2 ? 1 : 0), found, day);
    }

    /** Return the number of two digits; a large negative number if they are none. */
    private static int two(byte[] text, int at) {
        int high = text[at] - '0';
        int low = text[at + 1] - '0';
        return high < 0 || high > 9 || low < 0 || low > 9 ? -100_000 : 10 * high + low;
    }

    /** Return the microseconds of milliseconds since 1970, in years 1 to 9999. */
    static long ofMillis(long millis) {
        if (millis < FIRST_DAY * SECONDS_PER_DAY * 1000 || millis >= (LAST_DAY + 1) * SECONDS_PER_DAY * 1000 - 999) {
            throw Unusual.RECORD;
        }
        return millis * 1000;
    }

    static boolean isDate(int length) {
        return length == DATE;
    }

    /** Return the microseconds since 1970 of a text between two places, as Spark casts it; NONE if it is no timestamp. */
    static long parse(byte[] text, int from, int to, ZoneId zone, long fixedOffset) {
        long found = to - from < TIME ? NONE : parseIso(text, from, to, fixedOffset);
        if (found != NONE) {
            return found;
        }
        Option<Object> other =
                SparkDateTimeUtils$.MODULE$.stringToTimestamp(UTF8String.fromBytes(text, from, to - from), zone);
        return other.isDefined() ? (Long) other.get() : NONE;
    }

    private static long parseIso(byte[] text, int from, int to, long fixedOffset) {
        long day = parseDate(text, from);
        int hour = two(text, from + 11);
        int minute = two(text, from + 14);
        int second = two(text, from + 17);
        boolean isTime = hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && second >= 0 && second < 60;
        boolean isSeparated = (text[from + DATE] == 'T' || text[from + DATE] == ' ') && text[from + 13] == ':' && text[from + 16] == ':';
        if (day == NONE || !isTime || !isSeparated) {
            return NONE;
        }
        int at = from + TIME;
        long fraction = 0;
        if (at < to && text[at] == '.') {
            long unit = MICROS;
            for (at++; at < to && text[at] >= '0' && text[at] <= '9'; at++) {
                unit /= 10;
                fraction += unit * (text[at] - '0');
                if (unit == 0) {
                    return NONE;
                }
            }
            if (unit == MICROS) {
                return NONE;
            }
        }
        long offset = at == to ? fixedOffset : parseOffset(text, at, to);
        long seconds = day * SECONDS_PER_DAY + hour * 3600L + minute * 60L + second;
        return offset == NONE ? NONE : (seconds - offset) * MICROS + fraction;
    }

    /** Return the seconds of an offset `Z` or `+01:00`. */
    private static long parseOffset(byte[] text, int at, int to) {
        if (to - at == 1) {
            return text[at] == 'Z' ? 0 : NONE;
        }
        if (to - at != 6 || text[at + 3] != ':' || text[at] != '+' && text[at] != '-') {
            return NONE;
        }
        int hours = two(text, at + 1);
        int minutes = two(text, at + 4);
        if (hours < 0 || hours > 17 || minutes < 0 || minutes > 59) {
            return NONE;
        }
        long seconds = hours * 3600L + minutes * 60L;
        return text[at] == '-' ? -seconds : seconds;
    }

    /** Return the seconds of a zone whose offset never changes; NONE for other zones. */
    static long fixedOffset(ZoneId zone) {
        return zone.getRules().isFixedOffset() ? zone.getRules().getOffset(java.time.Instant.EPOCH).getTotalSeconds() : NONE;
    }

    static boolean isUtc(ZoneId zone) {
        return zone.normalized().equals(ZoneOffset.UTC);
    }
}
