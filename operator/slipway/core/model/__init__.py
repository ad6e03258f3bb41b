"""What the API server shows, as frozen structs, and a SliceJob as it was read and is written."""
