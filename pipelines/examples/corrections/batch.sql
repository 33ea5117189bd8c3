-- A batch has no late records, so there are no corrections.
SELECT origin, time_bucket(INTERVAL '1 hour', scheduled) AS window_start, window_start + INTERVAL '1 hour' AS window_end,
  count(*) AS departures, max(dep_delay) AS max_delay, 0 AS revision, false AS retraction
FROM flights GROUP BY ALL
