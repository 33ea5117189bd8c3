CREATE TABLE stock (product TEXT PRIMARY KEY, amount INT NOT NULL CHECK (amount >= 0));
CREATE TABLE orders (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer INT NOT NULL, cancelled BOOLEAN NOT NULL DEFAULT false);
CREATE TABLE outbox (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype TEXT NOT NULL, aggregateid TEXT NOT NULL,
    type TEXT NOT NULL, payload JSONB NOT NULL
);
INSERT INTO stock VALUES ('tea', 10), ('milk', 5)
