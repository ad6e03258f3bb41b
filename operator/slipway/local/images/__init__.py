"""Images: building, pushing, pulling, and naming them by what they are."""
