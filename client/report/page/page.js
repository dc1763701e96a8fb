(function () {
  var form = document.getElementById('filters');
  if (!form) return;
  var rows = Array.prototype.slice.call(document.querySelectorAll('#samples .sample'));
  var texts = rows.map(function (row) { return row.textContent.toLowerCase(); });
  function chosen(name) {
    var input = document.getElementById('filter-' + name);
    return input ? input.value : '';
  }
  function hasOutcome(row, outcome, candidate) {
    var outcomes = row.dataset.outcome.split(' ');
    if (candidate !== '') outcomes = [outcomes[Number(candidate)]];
    if (outcome === '') return true;
    if (outcome === 'flipped') return outcomes.indexOf('gain') >= 0 || outcomes.indexOf('loss') >= 0;
    return outcomes.indexOf(outcome) >= 0;
  }
  function apply() {
    var task = chosen('task'), length = chosen('length'), flag = chosen('flag');
    var text = chosen('text').toLowerCase();
    var shown = 0;
    rows.forEach(function (row, i) {
      var fits = (task === '' || row.dataset.task === task) && (length === '' || row.dataset.length === length) &&
        hasOutcome(row, chosen('outcome'), chosen('candidate')) &&
        (flag === '' || row.dataset.flags.split(' ').indexOf(flag) >= 0) &&
        (text === '' || texts[i].indexOf(text) >= 0);
      row.hidden = !fits;
      if (fits) shown += 1;
    });
    document.getElementById('shown').textContent = shown + ' shown';
  }
  form.addEventListener('input', apply);
  form.addEventListener('submit', function (event) { event.preventDefault(); });
  var fold = document.getElementById('samples-fold');
  function unfold() { if (location.hash === '#samples') fold.open = true; }
  window.addEventListener('hashchange', unfold);
  unfold();
  apply();
})();
