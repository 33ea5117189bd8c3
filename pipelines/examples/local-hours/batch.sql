SELECT origin, strftime(timezone('America/New_York', bucket), '%Y-%m-%d %H:%M') AS hour,
       count(*) AS departures, avg(dep_delay) AS mean_delay, max(dep_delay) AS max_delay
FROM (SELECT *, time_bucket(INTERVAL '1 hour', scheduled) AS bucket FROM flights)
GROUP BY ALL
