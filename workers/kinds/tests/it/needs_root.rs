//! What only root can try. Without root, `.ci/test` counts these tests as skipped: they are left out
//! by the name of this module, and fail where they are run all the same.
mod file_faults;
mod file_owners;
