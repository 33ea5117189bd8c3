WITH once AS (SELECT * FROM commands QUALIFY row_number() OVER (PARTITION BY auction, id ORDER BY place) = 1),
opened AS (SELECT auction, min(place) AS place, arg_min(amount, place) AS reserve FROM once WHERE command = 'open' GROUP BY auction),
closed AS (SELECT auction, min(c.place) AS place FROM once c JOIN opened o USING (auction) WHERE command = 'close' AND c.place > o.place GROUP BY auction),
valid AS (
    SELECT b.* FROM once b JOIN opened o USING (auction) LEFT JOIN closed c USING (auction)
    WHERE command = 'bid' AND b.place > o.place AND (c.place IS NULL OR b.place < c.place) AND amount >= reserve),
best AS (
    SELECT *, max(amount) OVER (PARTITION BY auction ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM valid),
events AS (
    SELECT auction, place, 'opened' AS type, format('{{"amount":{},"type":"opened"}}', reserve) AS data FROM opened
    UNION ALL
    SELECT auction, place, 'bid', format('{{"amount":{},"bidder":{},"type":"bid"}}', amount, bidder) FROM best WHERE before IS NULL OR amount > before
    UNION ALL
    SELECT c.auction, c.place, 'closed',
           format('{{"amount":{},"bidder":{},"type":"closed"}}', coalesce(max(amount)::VARCHAR, 'null'), coalesce(arg_max(bidder, struct_pack(a := amount, b := -v.place))::VARCHAR, 'null'))
    FROM closed c LEFT JOIN valid v ON v.auction = c.auction GROUP BY ALL)
SELECT auction, row_number() OVER (PARTITION BY auction ORDER BY e.place) AS sequence, type, data, id AS cause
FROM events e JOIN once USING (auction, place)
