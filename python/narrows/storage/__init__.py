"""Files: durable writes, ceilings on what is read, the origin of a result."""
