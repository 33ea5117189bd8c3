package kappa.state;

/** Arithmetic with times in microseconds that ends at the bounds of a long. */
final class Times {
    private Times() {}

    static long add(long time, long length) {
        long sum = time + length;
        boolean isOverflow = ((time ^ sum) & (length ^ sum)) < 0;
        return isOverflow ? (time < 0 ? Long.MIN_VALUE : Long.MAX_VALUE) : sum;
    }
}
