-- Nothing comes too late where all is there at once, so there is nothing to correct.
SELECT origin, time_bucket(INTERVAL '1 hour', scheduled) AS window_start, window_start + INTERVAL '1 hour' AS window_end,
  count(*) AS departures, max(dep_delay) AS max_delay, 0 AS revision, false AS retraction
FROM flights GROUP BY ALL
