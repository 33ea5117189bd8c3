-- The tables of an online shop in PostgreSQL. The user `debezium`, with LOGIN and REPLICATION, is there before.
CREATE TABLE customers (id INT PRIMARY KEY, name TEXT NOT NULL, city TEXT);
CREATE TABLE products (id INT PRIMARY KEY, name TEXT NOT NULL, price NUMERIC(10, 2) NOT NULL);
CREATE TABLE stock (product INT PRIMARY KEY REFERENCES products, quantity INT NOT NULL);
CREATE TABLE orders (
    id BIGINT PRIMARY KEY,
    customer INT NOT NULL REFERENCES customers,
    status TEXT NOT NULL,
    placed TIMESTAMPTZ NOT NULL,
    note TEXT
);
CREATE TABLE items (
    id BIGINT PRIMARY KEY,
    order_id BIGINT NOT NULL REFERENCES orders,
    product INT NOT NULL REFERENCES products,
    quantity INT NOT NULL,
    price NUMERIC(10, 2) NOT NULL
);

GRANT SELECT ON customers, products, stock, orders, items TO debezium;
CREATE PUBLICATION shop FOR TABLE customers, products, stock, orders, items;
