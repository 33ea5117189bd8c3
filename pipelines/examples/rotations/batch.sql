SELECT tailnum, min(scheduled) AS begins, count(*) AS legs, sum(distance) AS miles
FROM (SELECT *, sum(fresh) OVER (PARTITION BY tailnum ORDER BY scheduled RANGE UNBOUNDED PRECEDING) AS session
      FROM (SELECT *, CASE WHEN scheduled - lag(scheduled) OVER (PARTITION BY tailnum ORDER BY scheduled)
                                <= INTERVAL '10 hours' THEN 0 ELSE 1 END AS fresh
            FROM flights WHERE tailnum IS NOT NULL))
GROUP BY tailnum, session
