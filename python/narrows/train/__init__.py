"""Training of congestion controls: the search of Winstein and Balakrishnan for rule trees."""
