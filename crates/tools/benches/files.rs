//! What reading and editing cost.

fn main() {}
