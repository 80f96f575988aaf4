"""What can be known of the GPU back end without a GPU: everything compiles, and the binaries keep the plans' promises."""
