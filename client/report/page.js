(function () {
  var form = document.getElementById('filters');
  if (!form) return;
  var rows = Array.prototype.slice.call(document.querySelectorAll('#samples .sample'));
  function chosen(name) {
    var select = document.getElementById('filter-' + name);
    return select ? select.value : '';
  }
  function apply() {
    var task = chosen('task'), length = chosen('length'), outcome = chosen('outcome'), candidate = chosen('candidate');
    var shown = 0;
    rows.forEach(function (row) {
      var outcomes = row.dataset.outcome.split(' ');
      if (candidate !== '') outcomes = [outcomes[Number(candidate)]];
      var fits = (task === '' || row.dataset.task === task) && (length === '' || row.dataset.length === length) &&
        (outcome === '' || outcomes.indexOf(outcome) >= 0);
      row.hidden = !fits;
      if (fits) shown += 1;
    });
    document.getElementById('shown').textContent = shown + ' shown';
  }
  form.addEventListener('change', apply);
  apply();
})();
