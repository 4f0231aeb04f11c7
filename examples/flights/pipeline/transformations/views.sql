-- When to fly: what the delay is like, by airport and scheduled hour.
CREATE MATERIALIZED VIEW by_hour USING parquet AS
SELECT
  origin,
  hour,
  count(dep_delay) AS flights,
  percentile(dep_delay, 0.5) AS median,
  percentile(dep_delay, 0.25) AS lower_quartile,
  percentile(dep_delay, 0.75) AS upper_quartile
FROM flights
GROUP BY origin, hour;

-- The year: each day's mean delay, and how many of its flights did not take off.
CREATE MATERIALIZED VIEW by_day USING parquet AS
SELECT month, day, count(*) AS scheduled, avg(dep_delay) AS delay, count_if(dep_delay IS NULL) AS cancelled
FROM flights
GROUP BY month, day;

-- With whom: the share of flights that left more than so late, of those that left.
CREATE MATERIALIZED VIEW by_carrier USING parquet AS
SELECT
  carrier,
  count(dep_delay) AS flights,
  count_if(dep_delay > 15) / count(dep_delay) AS late_15,
  count_if(dep_delay > 60) / count(dep_delay) AS late_60
FROM flights
GROUP BY carrier;
