WITH counted AS (
    SELECT auction, time_bucket(INTERVAL '2 minutes', bid_at) - back * INTERVAL '2 minutes' + INTERVAL '10 minutes' AS until, count(*) AS bids
    FROM bids, (SELECT unnest(range(5)) AS back) GROUP BY ALL)
SELECT until, max(bids) AS bids, first(auction ORDER BY bids DESC, auction DESC) AS auction FROM counted GROUP BY until
