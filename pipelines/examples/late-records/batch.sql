-- A batch has no late records.
SELECT origin, time_bucket(INTERVAL '1 hour', scheduled) AS window_start, window_start + INTERVAL '1 hour' AS window_end,
  count(*) AS departures, max(dep_delay) AS max_delay
FROM flights WHERE dep_delay IS NOT NULL GROUP BY ALL
