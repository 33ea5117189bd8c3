-- Exact: with so few rows the sketches are exact too.
WITH placed AS (
  SELECT origin, time_bucket(INTERVAL '1 day', scheduled, TIMESTAMPTZ '1970-01-01 00:00:00+00') AS day, * EXCLUDE (origin) FROM flights
), by_place AS (
  SELECT origin, day, dest, count(*) AS n FROM placed GROUP BY ALL
)
SELECT origin, day, count(DISTINCT tailnum) AS aircraft,
  quantile_disc(dep_delay, 0.5) AS median_delay, quantile_disc(dep_delay, 0.95) AS p95_delay,
  (SELECT max(n) FROM by_place b WHERE b.origin = placed.origin AND b.day = placed.day) AS to_favourite,
  coalesce(bool_or(tailnum = 'N14228'), false) AS saw_n14228, count(*) FILTER (WHERE carrier = 'UA') AS of_united
FROM placed GROUP BY origin, day
