"""Is a cheaper model good enough? Models compared on the work that both of them did."""
