SELECT carrier, flight, f.origin, scheduled, dep_delay,
       CASE WHEN scheduled - observed <= INTERVAL '2 hours' THEN wind_speed END AS wind,
       CASE WHEN scheduled - observed <= INTERVAL '2 hours' THEN visib END AS visibility,
       CASE WHEN scheduled - observed <= INTERVAL '2 hours' THEN observed END AS reported
FROM flights f ASOF LEFT JOIN weather w ON f.origin = w.origin AND scheduled >= observed
