WITH hourly AS (SELECT origin, time_bucket(INTERVAL '1 hour', scheduled) AS hour, count(*) AS departures FROM flights GROUP BY ALL)
SELECT now.origin, now.hour, now.departures, before.departures AS day_before
FROM hourly now LEFT JOIN hourly before ON now.origin = before.origin AND before.hour = now.hour - INTERVAL '1 day'
