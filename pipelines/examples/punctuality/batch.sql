SELECT carrier, time_bucket(INTERVAL '1 day', scheduled, TIMESTAMPTZ '1970-01-01 00:00:00+00') AS day, count(*) AS flights,
       count(*) FILTER (dep_delay <= 0) / count(dep_delay) AS on_time,
       quantile_cont(dep_delay, 0.5) AS median_delay, quantile_cont(dep_delay, 0.95) AS p95_delay,
       stddev_samp(dep_delay) AS spread
FROM flights GROUP BY ALL
