//! Style as a test: the direction of dependencies, where `unsafe` may live and that it is
//! justified, what sources look like, that they do not import each other in circles, and that
//! documents cite and name what exists and draw calls that are made. The crates and what each may
//! use are read from ARCHITECTURE.md ("The rooms"); CONTRIBUTING.md explains the rules.

mod crates;
mod documents;
mod imports;
mod readable;
mod references;
mod rings;
mod sources;
mod walk;
mod words;
mod workspace;
