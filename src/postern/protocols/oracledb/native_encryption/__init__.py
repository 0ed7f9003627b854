"""Native network encryption and data integrity of Oracle Net, as a client of targets."""
