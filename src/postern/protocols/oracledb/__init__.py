"""The protocol of Oracle Database for thin clients: TNS packets, and TTC calls within them."""
