//! The options of workers: pairs of a flag and its value.

use std::error::Error;
use std::str::FromStr;

/// Flags and their values, in the order of the command line.
#[derive(Debug)]
pub(crate) struct WorkerFlags(Vec<(String, String)>);

impl WorkerFlags {
    pub(super) fn parse(words: &[String]) -> Result<Self, Box<dyn Error>> {
        let pairs = words.chunks(2).map(|pair| match pair {
            [flag, value] => Ok((flag.clone(), value.clone())),
            pair => Err(format!("{} needs a value", pair[0]).into()),
        });
        pairs.collect::<Result<_, Box<dyn Error>>>().map(Self)
    }

    /// All values of a flag.
    pub(super) fn all(&self, flag: &str) -> impl Iterator<Item = &str> {
        let values = self.0.iter().filter(move |(known, _)| known == flag);
        values.map(|(_, value)| &value[..])
    }

    /// The value of a flag, if it is set.
    pub(super) fn get<T: FromStr>(&self, flag: &str) -> Result<Option<T>, Box<dyn Error>> {
        self.all(flag).last().map(|value| parse(flag, value)).transpose()
    }

    /// The value of a flag that has to be set.
    pub(super) fn need<T: FromStr>(&self, flag: &str) -> Result<T, Box<dyn Error>> {
        self.get(flag)?.ok_or_else(|| format!("{flag} is missing").into())
    }

    /// The values of a flag, separated by commas.
    pub(super) fn list<T: FromStr>(&self, flag: &str) -> Result<Vec<T>, Box<dyn Error>> {
        let words = self.all(flag).flat_map(|value| value.split(','));
        words.map(|word| parse(flag, word)).collect()
    }
}

fn parse<T: FromStr>(flag: &str, text: &str) -> Result<T, Box<dyn Error>> {
    text.parse().map_err(|_| format!("{flag}: invalid value '{text}'").into())
}
