SELECT tailnum, carrier, dep_delay AS from_delay, delay_3 AS to_delay, (dep_delay + delay_2 + delay_3) / 3 AS mean_delay,
       concat_ws(' ', origin, origin_2, origin_3, dest_3) AS route,
       scheduled AS match_start, scheduled_3 AS match_end, scheduled_3 AS match_time
FROM (SELECT *, lead(dep_delay) OVER w AS delay_2, lead(dep_delay, 2) OVER w AS delay_3,
             lead(origin) OVER w AS origin_2, lead(origin, 2) OVER w AS origin_3,
             lead(dest, 2) OVER w AS dest_3, lead(scheduled, 2) OVER w AS scheduled_3
      FROM flights WHERE tailnum IS NOT NULL
      WINDOW w AS (PARTITION BY tailnum ORDER BY scheduled))
WHERE dep_delay < delay_2 AND delay_2 < delay_3 AND scheduled_3 - scheduled <= INTERVAL '1 day'
