-- Made anew in each run, out of the table.
CREATE MATERIALIZED VIEW by_minute USING parquet AS
SELECT routing_key, date_trunc('MINUTE', timestamp) AS minute, count(*) AS messages
FROM messages
GROUP BY ALL
