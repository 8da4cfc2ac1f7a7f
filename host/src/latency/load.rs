//! The loads of the processors under which response times are measured.

/// The load of the processors.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Load {
    /// No load.
    None,
    /// Computation.
    Cpu,
}

impl Load {
    /// All loads by name.
    pub fn parse(text: &str) -> Result<Load, String> {
        match text {
            "none" => Ok(Load::None),
            "cpu" => Ok(Load::Cpu),
            _ => Err(format!("{text}: unknown load; write none or cpu")),
        }
    }
    /// The name of the load.
    pub fn name(self) -> &'static str {
        match self {
            Load::None => "none",
            Load::Cpu => "cpu",
        }
    }
}
