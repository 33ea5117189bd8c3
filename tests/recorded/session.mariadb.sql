-- part: schema
CREATE DATABASE ware;
SET GLOBAL sql_mode = '';
CREATE TABLE ware.oddities (
    id INT PRIMARY KEY, tiny TINYINT UNSIGNED, small SMALLINT UNSIGNED, medium MEDIUMINT UNSIGNED, big BIGINT UNSIGNED,
    signed_big BIGINT, flag BOOLEAN, wide TINYINT(4), year YEAR, fixed DECIMAL(38, 10), single FLOAT, double_one DOUBLE,
    day DATE, clock TIME(6), second DATETIME, milli DATETIME(3), micro DATETIME(6), zoned TIMESTAMP(6) NULL,
    size ENUM('small', 'large'), colours SET('red', 'green', 'blue'), bits BIT(10), bit_one BIT(1), bytes VARBINARY(10), large BLOB,
    document JSON, words TEXT CHARACTER SET latin1, place POINT, code UUID, twice INT AS (id * 2) STORED
);
CREATE TABLE ware.zeros (id INT PRIMARY KEY, day DATE, sure_day DATE NOT NULL, at DATETIME, sure_at DATETIME NOT NULL);
CREATE TABLE ware.stock (id INT PRIMARY KEY, name VARCHAR(20) CHARACTER SET utf8mb4 NOT NULL, amount INT);
INSERT INTO ware.oddities VALUES
    (1, 255, 65535, 16777215, 18446744073709551615, -9223372036854775808, true, -8, 2155, 1234567890123456789012345678.0123456789, 1.5,
     1e300, '2026-02-03', '-838:59:58.000001', '2026-02-03 04:05:06', '2026-02-03 04:05:06.007', '2026-02-03 04:05:06.000007',
     '2026-02-03 04:05:06.000007', 'large', 'red,blue', b'1000000001', b'1', x'00ff10', x'00ff', '{"a": [1, null]}', 'Gödel',
     ST_PointFromText('POINT(1.5 -2)'), '00000000-0000-0000-0000-000000000001', DEFAULT),
    (2, 0, 0, 0, 9223372036854775807, 9223372036854775807, false, 7, 1901, -0.0000000001, -1.5, -0.0, '1000-01-01', '00:00:00',
     '1000-01-01 00:00:00', '1969-12-31 23:59:59.999', '9999-12-31 23:59:59.999999', '1970-01-01 00:00:01', 'small', '', b'0', b'0',
     '', '', 'null', '', ST_PointFromText('POINT(0 0)'), 'ffffffff-ffff-ffff-ffff-ffffffffffff', DEFAULT);
INSERT INTO ware.oddities (id) VALUES (3);
INSERT INTO ware.zeros VALUES (1, '0000-00-00', '0000-00-00', '0000-00-00 00:00:00', '0000-00-00 00:00:00'), (2, '2026-00-00', '2026-02-00', NULL, '2026-01-01');
INSERT INTO ware.stock VALUES (1, 'tea', 10), (2, 'milk', 5), (3, 'salt', 1)
-- part: changes
INSERT INTO ware.oddities (id, tiny, small, medium, big, signed_big, flag, wide, year, fixed, single, double_one, day, clock, second, milli, micro, zoned,
    size, colours, bits, bit_one, bytes, large, document, words, place, code)
    SELECT id + 10, tiny, small, medium, big, signed_big, flag, wide, year, fixed, single, double_one, day, clock, second, milli, micro, zoned,
    size, colours, bits, bit_one, bytes, large, document, words, place, code FROM ware.oddities;
INSERT INTO ware.zeros SELECT id + 10, day, sure_day, at, sure_at FROM ware.zeros;
UPDATE ware.stock SET amount = amount - 1;
UPDATE ware.stock SET id = 20 WHERE id = 2;
DELETE FROM ware.stock WHERE id = 3;
INSERT INTO ware.stock VALUES (4, '🍞', 7);
INSERT INTO ware.stock VALUES (6, 'last', NULL)
-- part: end
FLUSH BINARY LOGS;
UPDATE ware.stock SET amount = 100 WHERE id = 4;
INSERT INTO ware.stock VALUES (7, 'the end', NULL)
