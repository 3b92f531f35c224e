//! The interactive front end.
use crate::{
    exit::{Failure, Status},
    setup::Setup,
};
pub(crate) async fn run(
    _: Option<String>,
    _: Setup,
    _: &std::path::Path,
) -> Result<Status, Failure> {
    Err(Failure::usage("not yet"))
}
