"""`spark.read.format("headrace")`: records of topics as rows."""
