//! Columns of samples as Arrow tables. Arrow arrays own the vectors and pass them to Python by the
//! C stream interface, without copying values.

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, Float64Type, UInt8Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, PrimitiveArray, RecordBatch,
    RecordBatchIterator, StringArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType};
use narrows_core::cc::INFINITE_SSTHRESH;
use narrows_core::metrics::{
    DELAYS_OF, DROP_REASONS, NO_CONNECTION, NO_WORD, PHASES, Samples, VERDICTS,
};
use narrows_core::units::{Rate, Span};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyString};
use std::sync::Arc;

/// One table of samples. `pyarrow.table` and similar libraries read it by the Arrow PyCapsule
/// interface.
#[pyclass(frozen, module = "narrows._core")]
pub struct Table(pub RecordBatch);

#[pymethods]
impl Table {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema().as_ref()).map_err(arrow)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Every column as a Python list, by name, with None for missing values. This needs no other
    /// package.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        for (field, array) in self.0.schema().fields().iter().zip(self.0.columns()) {
            found.set_item(field.name(), list(py, array)?)?;
        }
        Ok(found)
    }

    /// All names that a column of text may contain, in the order of their internal numbers.
    fn names(&self, column: &str) -> PyResult<Vec<&str>> {
        let found = self.0.column_by_name(column);
        let names = found.and_then(|array| Some(array.as_any_dictionary_opt()?.values()));
        let names = names.ok_or_else(|| PyKeyError::new_err(column.to_owned()))?;
        Ok(names.as_string::<i32>().iter().flatten().collect())
    }

    /// Implements the Arrow stream interface. It permits a producer to ignore the requested schema.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        PyCapsule::new_with_value(
            py,
            FFI_ArrowArrayStream::new(Box::new(batches)),
            c"arrow_array_stream",
        )
    }
}

/// The values of a column as a Python list. Its type is one of those that [`of`] creates.
fn list<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Bound<'py, PyList>> {
    match array.data_type() {
        DataType::Float64 => PyList::new(py, array.as_primitive::<Float64Type>()),
        DataType::UInt32 => PyList::new(py, array.as_primitive::<UInt32Type>()),
        DataType::UInt64 => PyList::new(py, array.as_primitive::<UInt64Type>()),
        DataType::Dictionary(key, _) if **key == DataType::UInt8 => {
            names(py, array.as_dictionary::<UInt8Type>())
        }
        DataType::Dictionary(key, _) if **key == DataType::UInt32 => {
            names(py, array.as_dictionary::<UInt32Type>())
        }
        other => Err(PyValueError::new_err(other.to_string())),
    }
}

/// The values of a dictionary column as names; equal names are the same Python object.
fn names<'py, K: ArrowDictionaryKeyType>(
    py: Python<'py>,
    array: &DictionaryArray<K>,
) -> PyResult<Bound<'py, PyList>> {
    let names = array.values().as_string::<i32>().iter();
    let names: Vec<_> = names
        .map(|name| name.map(|name| PyString::new(py, name)))
        .collect();
    let keys = (0..array.len()).map(|row| array.key(row).and_then(|key| names[key].as_ref()));
    PyList::new(py, keys)
}

/// Converts an error of Arrow, which only a bug in this crate can cause.
pub fn arrow(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A queue of a run: its name, and the names of its classes.
pub struct QueueNames {
    /// Name of the queue: that of its hop.
    pub name: String,
    /// Names of its classes, in order; empty for a queue discipline without classes.
    pub classes: Vec<String>,
}

/// The tables of a run, by name. `metric_interval` is the time over which `goodput_mbit` is
/// computed. Arrow takes over the vectors unchanged; only the bitmaps of missing values are new.
pub fn of(
    run: Samples,
    metric_interval: Span,
    flow_ids: &[&str],
    probe_ids: &[String],
    queues: &[QueueNames],
) -> PyResult<Vec<(&'static str, RecordBatch)>> {
    let Samples {
        flows,
        queue,
        classes,
        pings,
        delays,
        verdicts,
        states,
        transfers,
    } = run;
    let goodput_mbit = flows.goodput_mbit(metric_interval);
    let hops: Vec<&str> = queues.iter().map(|q| q.name.as_str()).collect();
    let flow = named(flows.flow, flow_ids);
    let samples = table([
        ("t_s", column(Float64Array::from(flows.t_s)), GIVEN),
        ("flow", flow, GIVEN),
        (
            "cwnd_packets",
            column(UInt32Array::from(flows.cwnd_packets)),
            GIVEN,
        ),
        (
            "ssthresh_packets",
            without::<UInt32Type>(flows.ssthresh_packets.into(), |x| x == INFINITE_SSTHRESH),
            MAY_MISS,
        ),
        (
            "in_flight_packets",
            column(UInt32Array::from(flows.in_flight_packets)),
            GIVEN,
        ),
        (
            "rtt_ms",
            without::<Float64Type>(flows.rtt_ms.into(), f64::is_nan),
            MAY_MISS,
        ),
        (
            "ack_rtt_ms",
            without::<Float64Type>(flows.ack_rtt_ms.into(), f64::is_nan),
            MAY_MISS,
        ),
        (
            "delivered_bytes",
            column(UInt64Array::from(flows.delivered_bytes)),
            GIVEN,
        ),
        (
            "goodput_mbit",
            without::<Float64Type>(goodput_mbit.into(), f64::is_nan),
            MAY_MISS,
        ),
        (
            "retransmits",
            column(UInt64Array::from(flows.retransmits)),
            GIVEN,
        ),
        // The maximum rate stands for no pacing, as before the first RTT sample.
        (
            "pacing_mbit",
            without::<Float64Type>(flows.pacing_mbit.into(), |x| {
                x >= Rate::bit(u64::MAX).as_mbit()
            }),
            MAY_MISS,
        ),
        ("phase", words(flows.phase, PHASES), GIVEN),
    ]);
    let queue_samples = table([
        ("t_s", column(Float64Array::from(queue.t_s)), GIVEN),
        ("queue", named(queue.queue, &hops), GIVEN),
        (
            "backlog_bytes",
            column(UInt64Array::from(queue.backlog_bytes)),
            GIVEN,
        ),
        (
            "backlog_packets",
            column(UInt64Array::from(queue.backlog_packets)),
            GIVEN,
        ),
        ("drops", column(UInt64Array::from(queue.drops)), GIVEN),
        ("marks", column(UInt64Array::from(queue.marks)), GIVEN),
    ]);
    // Classes are numbered within their queue, but the dictionary of names covers the classes of
    // all queues.
    let first: Vec<u32> = queues
        .iter()
        .scan(0, |next, q| {
            let first = *next;
            *next += q.classes.len() as u32;
            Some(first)
        })
        .collect();
    let names: Vec<&str> = queues
        .iter()
        .flat_map(|q| &q.classes)
        .map(String::as_str)
        .collect();
    let numbers = classes
        .queue
        .iter()
        .zip(&classes.class)
        .map(|(q, c)| first[*q as usize] + c);
    let class = named(numbers.collect(), &names);
    let class_samples = table([
        ("t_s", column(Float64Array::from(classes.t_s)), GIVEN),
        ("queue", named(classes.queue, &hops), GIVEN),
        ("class", class, GIVEN),
        (
            "backlog_bytes",
            column(UInt64Array::from(classes.backlog_bytes)),
            GIVEN,
        ),
        (
            "backlog_packets",
            column(UInt64Array::from(classes.backlog_packets)),
            GIVEN,
        ),
    ]);
    let pings = table([
        ("t_s", column(Float64Array::from(pings.t_s)), GIVEN),
        ("probe", column(UInt32Array::from(pings.probe)), GIVEN),
        (
            "rtt_ms",
            without::<Float64Type>(pings.rtt_ms.into(), f64::is_nan),
            MAY_MISS,
        ),
    ]);
    let delays = table([
        ("of", words(delays.of, DELAYS_OF), GIVEN),
        ("number", column(UInt32Array::from(delays.number)), GIVEN),
        (
            "delay_ms",
            column(Float64Array::from(delays.delay_ms)),
            GIVEN,
        ),
        ("share", column(Float64Array::from(delays.share)), GIVEN),
    ]);
    // The numbers of probes follow that of the last flow.
    let senders = flow_ids
        .iter()
        .copied()
        .chain(probe_ids.iter().map(String::as_str));
    let sender = DictionaryArray::new(
        UInt32Array::from(verdicts.flow),
        Arc::new(StringArray::from_iter_values(senders)),
    );
    let verdicts = table([
        ("t_s", column(Float64Array::from(verdicts.t_s)), GIVEN),
        ("flow", Arc::new(sender), GIVEN),
        ("verdict", words(verdicts.verdict, VERDICTS), GIVEN),
        ("why", words(verdicts.reason, DROP_REASONS), GIVEN),
        (
            "waited_ms",
            without::<Float64Type>(verdicts.waited_ms.into(), f64::is_nan),
            MAY_MISS,
        ),
    ]);
    let states = table([
        ("t_s", column(Float64Array::from(states.t_s)), GIVEN),
        ("flow", named(states.flow, flow_ids), GIVEN),
        (
            "connection",
            without::<UInt32Type>(states.connection.into(), |x| x == NO_CONNECTION),
            MAY_MISS,
        ),
        ("name", named(states.name, &states.names), GIVEN),
        (
            "value",
            without::<Float64Type>(states.value.into(), f64::is_nan),
            MAY_MISS,
        ),
        ("word", maybe_named(states.word, &states.names), MAY_MISS),
    ]);
    let transfers = table([
        ("t_s", column(Float64Array::from(transfers.t_s)), GIVEN),
        ("flow", named(transfers.flow, flow_ids), GIVEN),
        ("bytes", column(UInt64Array::from(transfers.bytes)), GIVEN),
        (
            "fct_s",
            without::<Float64Type>(transfers.fct_s.into(), f64::is_nan),
            MAY_MISS,
        ),
        (
            "slowdown",
            without::<Float64Type>(transfers.slowdown.into(), f64::is_nan),
            MAY_MISS,
        ),
    ]);
    Ok(vec![
        ("samples", samples?),
        ("states", states?),
        ("transfers", transfers?),
        ("queue_samples", queue_samples?),
        ("class_samples", class_samples?),
        ("pings", pings?),
        ("delays", delays?),
        ("verdicts", verdicts?),
    ])
}

/// A column with the names that the numbers stand for.
fn named(numbers: Vec<u32>, names: &[&str]) -> ArrayRef {
    let names = Arc::new(StringArray::from(names.to_vec()));
    Arc::new(DictionaryArray::new(UInt32Array::from(numbers), names))
}

/// A column with the names that the numbers stand for, and null for [`NO_WORD`].
fn maybe_named(numbers: Vec<u32>, names: &[&str]) -> ArrayRef {
    let numbers = numbers.into_iter().map(|n| (n != NO_WORD).then_some(n));
    let names = Arc::new(StringArray::from(names.to_vec()));
    Arc::new(DictionaryArray::new(
        numbers.collect::<UInt32Array>(),
        names,
    ))
}

/// A column with the names at these indices in `names`.
fn words(indices: Vec<u8>, names: &[&str]) -> ArrayRef {
    Arc::new(DictionaryArray::new(
        UInt8Array::from(indices),
        Arc::new(StringArray::from(names.to_vec())),
    ))
}

const GIVEN: bool = false;
const MAY_MISS: bool = true;

fn table<const N: usize>(columns: [(&str, ArrayRef, bool); N]) -> PyResult<RecordBatch> {
    RecordBatch::try_from_iter_with_nullable(columns).map_err(arrow)
}

fn column<T: ArrowPrimitiveType>(values: PrimitiveArray<T>) -> ArrayRef {
    Arc::new(values)
}

/// A column of the values, with null for each value for which `missing` returns true.
fn without<T: ArrowPrimitiveType>(
    values: PrimitiveArray<T>,
    missing: impl Fn(T::Native) -> bool,
) -> ArrayRef {
    let (_, values, _) = values.into_parts();
    let nulls = values.iter().map(|x| !missing(*x)).collect();
    Arc::new(PrimitiveArray::<T>::new(values, Some(nulls)))
}
