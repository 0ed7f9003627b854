ssh backup@store {{ printf "tar -tf %s" (.archive | squote) | squote }}
