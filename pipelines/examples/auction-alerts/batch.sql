-- The searches have a few forms; each is parsed here with its own expression.
WITH versions AS (SELECT *, lead(since) OVER (PARTITION BY id ORDER BY since) AS until FROM searches),
     pairs AS (SELECT *, ' ' || trim(regexp_replace(lower(title), '[^a-z]+', ' ', 'g')) || ' ' AS said
               FROM lots JOIN versions ON listed >= since AND (until IS NULL OR listed < until) WHERE NOT coalesce(deleted, false))
SELECT lot, title, price, listed, id AS search, bidder, NULL AS search_error FROM pairs
WHERE CASE
        WHEN starts_with(query, '"') THEN contains(said, ' ' || trim(query, '"') || ' ')
        WHEN ends_with(query, '*') THEN contains(said, ' ' || rtrim(query, '*'))
        WHEN contains(query, ' OR ') THEN contains(said, ' ' || split_part(query, ' OR ', 1) || ' ') OR contains(said, ' ' || split_part(query, ' OR ', 2) || ' ')
        WHEN starts_with(query, 'NOT ') THEN NOT contains(said, ' ' || substr(query, 5) || ' ')
        WHEN contains(query, ' price:<') THEN contains(said, ' ' || split_part(query, ' price:<', 1) || ' ') AND price < split_part(query, ':<', 2)::BIGINT
        WHEN regexp_full_match(query, '[a-z]+') THEN contains(said, ' ' || query || ' ')
        ELSE false
      END
UNION ALL
SELECT NULL, NULL, NULL, since, id, bidder, 'there is no field ''colour''; known are title, price'
FROM searches WHERE query = 'colour:red' AND NOT coalesce(deleted, false)
