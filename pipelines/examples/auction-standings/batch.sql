WITH read AS (
    SELECT auction, sequence, data->>'type' AS type, CAST(data->>'amount' AS BIGINT) AS amount, CAST(data->>'bidder' AS BIGINT) AS bidder
    FROM "auction-events")
SELECT auction, sequence, NULL AS error, count(*) FILTER (type = 'bid') OVER w AS bids,
       max(amount) FILTER (type = 'bid') OVER w AS price, arg_max(bidder, sequence) FILTER (type = 'bid') OVER w AS bidder,
       bool_or(type = 'closed') OVER w AS closed
FROM read WINDOW w AS (PARTITION BY auction ORDER BY sequence)
