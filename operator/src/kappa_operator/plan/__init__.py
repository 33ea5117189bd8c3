"""Pure decisions: for each kind one `decide_*(observed, now) -> Plan`. No I/O, no clock, no randomness, no logging."""
