package kappa.json;

/** A record is not one that the reader of this module is sure about. Spark's own parser decides then. */
final class Unusual extends RuntimeException {
    private static final long serialVersionUID = 1L;
    static final Unusual RECORD = new Unusual();

    private Unusual() {
        super(null, null, false, false);
    }

    /** Return a value that is not null. */
    static <T> T orFail(T value) {
        if (value == null) {
            throw RECORD;
        }
        return value;
    }
}
