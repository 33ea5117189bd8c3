SELECT carrier, flight, origin, scheduled, count(*) OVER half_hour AS departures, avg(dep_delay) OVER half_hour AS mean_delay,
       max(dep_delay) OVER half_hour AS longest_delay
FROM flights
WINDOW half_hour AS (PARTITION BY origin ORDER BY scheduled RANGE BETWEEN INTERVAL '30 minutes' PRECEDING AND CURRENT ROW)
