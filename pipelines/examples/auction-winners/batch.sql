SELECT id, category, opened, max(price) AS price, first(bidder ORDER BY price DESC, bid_at, bidder DESC) AS winner, count(*) AS bids
FROM auctions JOIN bids ON id = auction AND bid_at >= opened AND bid_at < closes AND price >= reserve
GROUP BY ALL
