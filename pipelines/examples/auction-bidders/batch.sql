SELECT auction, bidder, price, bid_at, city FROM bids ASOF LEFT JOIN people ON bidder = id AND bid_at >= since
