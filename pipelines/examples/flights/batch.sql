SELECT origin, time_bucket(INTERVAL '1 hour', scheduled) AS hour, count(*) AS departures,
       avg(dep_delay) AS mean_delay, max(dep_delay) AS max_delay
FROM flights GROUP BY ALL
