"""What is known of the cluster, kept by watches."""
