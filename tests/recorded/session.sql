-- part: schema
CREATE TABLE signals (id TEXT PRIMARY KEY, type TEXT, data TEXT);
CREATE TABLE customers (id INT PRIMARY KEY, name TEXT NOT NULL, city TEXT, joined DATE);
CREATE TABLE orders (
    id BIGINT PRIMARY KEY, customer INT NOT NULL, total NUMERIC(10, 2), placed TIMESTAMPTZ, note TEXT
);
ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;
CREATE TABLE items (id INT PRIMARY KEY, order_id BIGINT, product TEXT, quantity INT);
CREATE TABLE carts (id INT PRIMARY KEY, customer INT);
CREATE TYPE size AS ENUM ('small', 'large');
CREATE TABLE oddities (
    id INT PRIMARY KEY, fixed NUMERIC(38, 10), free NUMERIC, money MONEY, day DATE, clock TIME,
    milli TIMESTAMP(3), micro TIMESTAMP, zoned TIMESTAMPTZ, bytes BYTEA, document JSONB, numbers INT[],
    words TEXT[], size SIZE, range INT4RANGE, times TSTZRANGE, uuid UUID, length INTERVAL, bits BIT(10),
    flag BOOLEAN, single REAL, double DOUBLE PRECISION, address INET, point POINT,
    twice INT GENERATED ALWAYS AS (id * 2) STORED
);
INSERT INTO customers VALUES
    (1, 'Ada', 'London', '2020-02-29'), (2, 'Blaise', 'Paris', '1969-12-31'), (3, 'Carl', NULL, NULL),
    (4, 'Emmy', 'Erlangen', '2026-01-01');
INSERT INTO orders VALUES (10, 1, 12.50, '2026-01-01T10:00:00+02', repeat('long_', 1000)),
    (11, 2, -0.01, '2026-01-01T11:00:00.123456Z', 'short');
INSERT INTO items VALUES (100, 10, 'tea', 2), (101, 10, 'milk', 1), (102, 11, 'bread', 3);
INSERT INTO carts VALUES (1, 1), (2, 2);
INSERT INTO oddities VALUES
    (1, 1234567890123456789012345678.0123456789, 1.50, 12.34, '2026-02-03', '01:02:03.000004',
     '2026-02-03T04:05:06.007', '2026-02-03T04:05:06.000007', '2026-02-03T04:05:06.000007+05:30', '\x00ff10',
     '{"a": [1, {"b": null}]}', '{1,NULL,3}', '{x,"y z"}', 'large', '[1,5)',
     '[2026-01-01 00:00:00+00,2026-01-02 00:00:00+00)', '00000000-0000-0000-0000-000000000001', '1 day 2 hours',
     B'1000000001', true, 1.5, 'NaN', '10.0.0.1', '(1.5,-2)'),
    (2, -0.0000000001, -12345678901234567890.123, -0.05, '0044-03-15 BC', '24:00:00', '1969-12-31T23:59:59.999',
     '0001-01-01T00:00:00', '9999-12-31T23:59:59.999999Z', '', 'null', '{}', '{}', 'small', 'empty', NULL,
     NULL, '-1 month', B'0000000000', false, '-Infinity', 1e300, '::1', '(0,0)');
INSERT INTO oddities (id) VALUES (3)
-- part: changes
INSERT INTO customers VALUES (5, 'Sofia', 'Moscow', '2026-01-02');
UPDATE customers SET city = 'Cambridge' WHERE id = 1;
UPDATE customers SET id = 20 WHERE id = 2;
DELETE FROM customers WHERE id = 3;
UPDATE orders SET customer = 20 WHERE customer = 2;
UPDATE orders SET total = 13.75 WHERE id = 10;
INSERT INTO orders VALUES (12, 5, 99999999.99, '2026-01-02T00:00:00Z', NULL), (13, 3, NULL, NULL, 'gone soon');
UPDATE orders SET customer = 1 WHERE id = 13;
DELETE FROM orders WHERE id = 13;
INSERT INTO items VALUES (103, 12, 'salt', 1), (104, 13, 'rice', 5);
UPDATE items SET quantity = 4 WHERE id = 102;
DELETE FROM items WHERE order_id = 13;
INSERT INTO carts VALUES (3, 5);
TRUNCATE carts;
INSERT INTO carts VALUES (4, 1);
INSERT INTO customers VALUES (3, 'Carl again', 'Brunswick', NULL);
UPDATE oddities SET flag = true WHERE id = 3;
INSERT INTO customers VALUES (6, 'last', NULL, NULL)
-- part: snapshot
UPDATE customers SET city = 'Göttingen' WHERE id = 4;
INSERT INTO signals VALUES
    ('1', 'execute-snapshot', '{"data-collections": ["public.customers"], "type": "incremental"}');
UPDATE customers SET city = 'Stockholm' WHERE id = 5
-- part: end
DELETE FROM customers WHERE id = 20;
INSERT INTO items VALUES (105, 14, 'tea', 1);
UPDATE items SET order_id = 14 WHERE id = 101;
INSERT INTO orders VALUES (14, 3, 7, '2026-01-03T00:00:00Z', 'last');
DELETE FROM customers WHERE id = 6;
INSERT INTO customers VALUES (7, 'the end', NULL, NULL)
