package kappa.json;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;

/** Writes a value of one type that is not null, out of a row or an array. */
interface Writer {
    void write(SpecializedGetters from, int at, Output output);
}
