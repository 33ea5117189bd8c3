WITH counted AS (SELECT origin, dest, time_bucket(INTERVAL '1 day', scheduled, TIMESTAMPTZ '1970-01-01 00:00:00+00') AS day, count(*) AS flights
                 FROM flights GROUP BY ALL)
SELECT origin, day, list(dest ORDER BY flights DESC, dest)[1:3] AS places FROM counted GROUP BY ALL
