SELECT c.carrier, c.flight, c.origin, c.dest, c.scheduled, d.flight AS other, d.origin AS other_origin, d.scheduled AS leaves
FROM flights c LEFT JOIN flights d
  ON c.carrier = d.carrier AND c.dest = d.dest AND d.dep_delay IS NOT NULL
 AND d.scheduled > c.scheduled AND d.scheduled <= c.scheduled + INTERVAL '6 hours'
WHERE c.dep_delay IS NULL
