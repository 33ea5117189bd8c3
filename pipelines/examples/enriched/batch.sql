SELECT scheduled, carrier, flight, model, seats, a.name AS destination, lat, lon
FROM flights f JOIN planes p ON f.tailnum = p.tailnum JOIN airports a ON f.dest = a.faa
