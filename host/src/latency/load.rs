//! The loads of this host's processors under which response times can be measured.

/// The load of the processors.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Load {
    /// No load.
    None,
    /// Processes that compute on all processors.
    Cpu,
}

impl Load {
    /// Reads the name of a load.
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
