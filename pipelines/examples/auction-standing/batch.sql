SELECT auction, bidder, price, bid_at AS match_start, bid_at AS match_end, bid_at + INTERVAL '5 minutes' AS match_time
FROM bids b
WHERE NOT EXISTS (
  SELECT 1 FROM bids o
  WHERE o.auction = b.auction AND o.price > b.price AND o.bid_at > b.bid_at AND o.bid_at <= b.bid_at + INTERVAL '5 minutes')
